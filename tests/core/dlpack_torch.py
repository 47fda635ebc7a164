"""Tensors of PyTorch and NumPy through Ferrite and back, without a copy: dlpack_torch.py MODULE.so"""
import ctypes
import gc
import sys

import numpy
import torch
from torch.utils.dlpack import from_dlpack, to_dlpack

module = ctypes.CDLL(sys.argv[1])
for name in ("ferrite_round_trip", "ferrite_round_trip_versioned", "ferrite_numbers"):
    getattr(module, name).restype = ctypes.c_void_p
module.ferrite_last_error.restype = ctypes.c_char_p
python = ctypes.pythonapi
python.PyCapsule_GetPointer.restype = ctypes.c_void_p
python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
NAMES = {False: b"dltensor", True: b"dltensor_versioned"}
USED = {False: b"used_dltensor", True: b"used_dltensor_versioned"}


def through_ferrite(capsule, versioned=False):
    pointer = python.PyCapsule_GetPointer(capsule, NAMES[versioned])
    call = module.ferrite_round_trip_versioned if versioned else module.ferrite_round_trip
    out = call(ctypes.c_void_p(pointer))
    if out is None:  # it still belongs to the capsule
        raise ValueError(module.ferrite_last_error().decode())
    python.PyCapsule_SetName(capsule, USED[versioned])
    return python.PyCapsule_New(out, NAMES[versioned], None)


def refused(tensor, text, **options):
    try:
        through_ferrite(tensor.__dlpack__(**options), versioned=bool(options))
    except ValueError as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"{tensor.dtype} was not refused")


checks = 0
for name in "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128".split():
    base = (torch.randn(6, 8, 5) * 50).to(getattr(torch, name))
    views = [base, base[1:4, ::3], base.permute(2, 0, 1), base[3, 4, 2], base[:0], base.flatten()[7:],
             base[:, :1].expand(6, 4, 5), base.contiguous().view(2, 3, 8, 5)]
    for x in views:
        for versioned in (False, True):
            capsule = x.__dlpack__(max_version=(1, 0)) if versioned else to_dlpack(x)
            y = from_dlpack(through_ferrite(capsule, versioned))
            assert y.dtype == x.dtype and y.shape == x.shape and y.equal(x), (x.dtype, x.shape, x.stride())
            if x.numel():
                assert y.data_ptr() == x.data_ptr()
                sizes = [d for d in range(x.dim()) if x.shape[d] > 1]
                assert [y.stride(d) for d in sizes] == [x.stride(d) for d in sizes]
            checks += 1

x = torch.zeros(4)
y = from_dlpack(through_ferrite(to_dlpack(x)))
y[2] = 7
assert x[2] == 7  # one memory
del x
gc.collect()
assert y[2] == 7  # which lives as long as anybody has it

z = from_dlpack(python.PyCapsule_New(module.ferrite_numbers(), b"dltensor", None))
assert z.tolist() == [[0, 3], [1, 4], [2, 5]] and module.ferrite_live_tensors() == 1
view = z[1]
del z
gc.collect()
assert view.tolist() == [1, 4] and module.ferrite_live_tensors() == 1
del view
gc.collect()
assert module.ferrite_live_tensors() == 0

array = numpy.arange(12, dtype=numpy.int32).reshape(3, 4)
assert torch.from_dlpack(array).equal(
    from_dlpack(through_ferrite(array.__dlpack__(max_version=(1, 0)), versioned=True)))
refused(torch.zeros(2, dtype=torch.complex32), "code 5, 32 bits")
refused(numpy.zeros(2, numpy.uint16), "code 1, 16 bits")
refused(numpy.arange(4)[::-1], "strides of 0 or more, got -1")
array.flags.writeable = False
refused(array, "must not be written", max_version=(1, 0))
refused(torch.zeros([1] * 9), "at most 8 dimensions, got 9")
print(checks, "tensors went through")
