"""torch.fft: values and gradients, at odd lengths, cut and padded, with every norm."""

import torch
from recorder import Recorder

with Recorder("fft") as r:
    def leaf(t):
        return t.detach().clone().requires_grad_()

    def record(case, f, x):
        x = leaf(x)
        out = f(x)
        grad = torch.randn_like(out)
        out.backward(grad)
        r.add(case, out=out, grad=grad, x_grad=x.grad)

    z = torch.randn(3, 5, 4, dtype=torch.complex128)
    x = torch.randn(3, 5, 4, dtype=torch.float64)
    r.add("inputs", z=z, x=x)
    for name in ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]:
        f, input = getattr(torch.fft, name), x if name in ("rfft", "ihfft") else z
        for norm in ["backward", "ortho", "forward"]:
            record(f"{name}_{norm}", lambda t: f(t, dim=1, norm=norm), input)
        for n in [1, 2, 6, 7]:
            record(f"{name}_{n}", lambda t: f(t, n, 1), input)
    for name in ["fft", "ifft", "rfft", "irfft"]:
        input = x if name == "rfft" else z
        two, many = getattr(torch.fft, name + "2"), getattr(torch.fft, name + "n")
        record(f"{name}2", lambda t: two(t, norm="ortho"), input)
        record(f"{name}2_sizes", lambda t: two(t, (7, 2), (2, 0)), input)
        record(f"{name}n", lambda t: many(t), input)
        record(f"{name}n_sizes", lambda t: many(t, (6, -1), norm="forward"), input)
    record("fft_of_real", lambda t: torch.fft.fft(t), x)
    record("fftshift", lambda t: torch.fft.fftshift(t), z)
    record("ifftshift", lambda t: torch.fft.ifftshift(t, (1,)), z)
    for n in [1, 4, 5]:
        r.add(f"freq_{n}", fftfreq=torch.fft.fftfreq(n, 0.3, dtype=torch.float64),
              rfftfreq=torch.fft.rfftfreq(n, 0.3, dtype=torch.float64))
    # A prime length, in float32.
    prime = torch.randn(2, 509, dtype=torch.complex64)
    r.add("prime", z=prime, out=torch.fft.fft(prime.to(torch.complex128)))

    # Short-time transforms.
    signal = torch.randn(2, 37, dtype=torch.float64)
    window = torch.hann_window(8, dtype=torch.float64)
    r.add("windows", hann=window, hamming=torch.hamming_window(7, False, dtype=torch.float64),
          signal=signal)
    complex_signal = torch.view_as_complex(torch.stack([signal, signal.flip(1)], -1))
    stft = {
        "stft": (signal, dict(n_fft=8, window=window)),
        "stft_plain": (signal, dict(n_fft=9, hop_length=4, center=False, window=torch.ones(9, dtype=torch.float64))),
        "stft_short": (signal[0], dict(n_fft=12, hop_length=3, win_length=8, window=window,
                                       normalized=True, pad_mode="constant")),
        "stft_complex": (complex_signal, dict(n_fft=8, hop_length=3, window=window, onesided=False)),
    }
    for name, (input, options) in stft.items():
        record(name, lambda t: torch.stft(t, **options, return_complex=True), input)
        back = {k: v for k, v in options.items() if k != "pad_mode"}
        spectrum = torch.stft(input, **options, return_complex=True)
        if input.is_complex():
            back["return_complex"] = True
        record(f"i{name}", lambda s: torch.istft(s, **back), spectrum)
        record(f"i{name}_length", lambda s: torch.istft(s, **back, length=30), spectrum)

    for name in ["hfft", "ihfft"]:
        input = x if name == "ihfft" else z
        two, many = getattr(torch.fft, name + "2"), getattr(torch.fft, name + "n")
        record(f"{name}2", lambda t: two(t, norm="ortho"), input)
        record(f"{name}2_sizes", lambda t: two(t, (7, 2), (2, 0)), input)
        record(f"{name}n", lambda t: many(t), input)
        record(f"{name}n_sizes", lambda t: many(t, (6, -1), norm="forward"), input)
