"""Layers for sequences, LSTM, GRU and their cells, MultiheadAttention: outputs and gradients from
given weights."""

import torch
from torch import nn
from torch.nn.utils import rnn

from recorder import Recorder

F64 = dict(dtype=torch.float64)


def leaf(*shape):
    return torch.randn(*shape, **F64).requires_grad_()


def record(r, case, module, inputs, call):
    """The module's state, the outputs of `call` and, for random gradients of them, all gradients."""
    module = module.double()
    with torch.no_grad():
        for p in module.parameters():
            p.uniform_(-1, 1)
    r.add(case, **{f"state.{k}": v for k, v in module.state_dict().items()})
    outputs = call(module)
    grads = {k: torch.randn_like(v) for k, v in outputs.items()}
    sum((v * grads[k]).sum() for k, v in outputs.items()).backward()
    r.add(case, **inputs, **outputs, **{f"d_{k}": v for k, v in grads.items()})
    r.add(case, **{f"grad.{k}": p.grad for k, p in module.named_parameters()})
    r.add(case, **{f"grad_{k}": t.grad for k, t in inputs.items() if t.requires_grad})


def lstm(r, case, module, x, *state):
    def call(m):
        output, (h, c) = m(x, state) if state else m(x)
        return dict(output=output, h_n=h, c_n=c)

    record(r, case, module, dict(x=x, **dict(zip(("h_0", "c_0"), state))), call)


def gru(r, case, module, x, *state):
    def call(m):
        output, h = m(x, *state)
        return dict(output=output, h_n=h)

    record(r, case, module, dict(x=x, **dict(zip(("h_0",), state))), call)


def packed(r, case, module, lengths, *state, **options):
    """Of padded sequences [T, N, 3]."""
    x, lengths = leaf(max(lengths), len(lengths), 3), torch.tensor(lengths)
    sequence = rnn.pack_padded_sequence(x, lengths, **options)
    r.add(case, lengths=lengths, **{k: v for k, v in sequence._asdict().items() if v is not None})

    def call(m):
        output, last = m(sequence, state if len(state) == 2 else state[0])
        last = last if torch.is_tensor(last) else torch.cat(last, -1)
        return dict(output=output.data, padded=rnn.pad_packed_sequence(output, padding_value=0.5)[0],
                    last=last)

    record(r, case, module, dict(x=x, **dict(zip(("h_0", "c_0"), state))), call)


def attention(r, case, module, inputs, **arguments):
    def call(m):
        output, weights = m(*inputs.values(), **arguments)
        return dict(output=output, weights=weights)

    r.add(case, **{k: v for k, v in arguments.items() if torch.is_tensor(v)})
    record(r, case, module, inputs, call)


with Recorder("sequence") as r:
    deep = dict(num_layers=2, bidirectional=True, batch_first=True, dropout=0.3)
    for name, kind, function, states in (("lstm", nn.LSTM, lstm, 2), ("gru", nn.GRU, gru, 1)):
        function(r, name, kind(3, 4), leaf(5, 2, 3))
        state = [leaf(4, 2, 4) for _ in range(states)]
        function(r, f"{name}_deep", kind(3, 4, **deep).eval(), leaf(2, 5, 3), *state)
        state = [leaf(1, 4) for _ in range(states)]
        function(r, f"{name}_bare", kind(3, 4, bias=False), leaf(5, 3), *state)

    x, h, c = leaf(2, 3), leaf(2, 4), leaf(2, 4)
    record(r, "lstm_cell", nn.LSTMCell(3, 4), dict(x=x, h=h, c=c),
           lambda m: dict(zip(("h_1", "c_1"), m(x, (h, c)))))
    x, h = leaf(2, 3), leaf(2, 4)
    record(r, "gru_cell", nn.GRUCell(3, 4, bias=False), dict(x=x, h=h),
           lambda m: dict(h_1=m(x, h)))

    inputs = dict(query=leaf(4, 3, 6), key=leaf(4, 3, 6), value=leaf(4, 3, 6))
    attention(r, "attention", nn.MultiheadAttention(6, 2), inputs)
    inputs = dict(query=leaf(3, 4, 6), key=leaf(3, 7, 5), value=leaf(3, 7, 2))
    padding = torch.arange(7) >= torch.tensor([[7], [5], [3]])
    attention(r, "attention_cross",
              nn.MultiheadAttention(6, 3, kdim=5, vdim=2, batch_first=True, bias=False), inputs,
              key_padding_mask=padding, attn_mask=torch.randn(4, 7, **F64),
              average_attn_weights=False)
    inputs = dict(query=leaf(4, 3, 6), key=leaf(5, 3, 6), value=leaf(5, 3, 6))
    mask = torch.rand(6, 4, 5) < 0.4
    mask[:, :, 0] = False
    attention(r, "attention_each", nn.MultiheadAttention(6, 2), inputs, attn_mask=mask)
    inputs = dict(query=leaf(4, 6), key=leaf(4, 6), value=leaf(4, 6))
    attention(r, "attention_causal", nn.MultiheadAttention(6, 1), inputs,
              attn_mask=torch.ones(4, 4, dtype=torch.bool).triu(1))

    unsorted = dict(enforce_sorted=False)
    packed(r, "lstm_packed", nn.LSTM(3, 4, num_layers=2, bidirectional=True), [2, 5, 1, 2],
           leaf(4, 4, 4), leaf(4, 4, 4), **unsorted)
    packed(r, "lstm_packed_proj", nn.LSTM(3, 4, proj_size=2), [4, 4, 1], leaf(1, 3, 2),
           leaf(1, 3, 4))
    packed(r, "gru_packed", nn.GRU(3, 4, bidirectional=True), [3, 2], leaf(2, 2, 4))
    packed(r, "rnn_packed", nn.RNN(3, 4, nonlinearity="relu"), [1, 3, 3], leaf(1, 3, 4), **unsorted)
