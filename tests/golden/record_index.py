"""Indexing, masks, padding and rearrangement."""

import torch
import torch.nn.functional as F

from recorder import Recorder

with Recorder("index") as r:
    x0 = torch.randn(3, 4, 5, dtype=torch.float64)
    source0 = torch.randn(2, 4, 5, dtype=torch.float64)
    r.add("input", x=x0, source=source0)

    def case(name, f, *leaves, **more):
        leaves = [t.clone().requires_grad_() for t in leaves]
        y = f(*leaves)
        weight = torch.linspace(-1, 2, y.numel(), dtype=torch.float64).reshape(y.shape)
        (y * weight).sum().backward()
        grads = {f"grad{i}": t.grad for i, t in enumerate(leaves)}
        r.add(name, out=y, **grads, **more)

    for dim in range(3):
        size = x0.shape[dim]
        shape = [2, 3, 4]
        shape[dim] = 6
        index = torch.randint(size, shape)
        case(f"gather{dim}", lambda x: x.gather(dim, index), x0, index=index)
        small = torch.randint(size, (2, 4, 5))
        case(f"scatter_add{dim}", lambda x, s: x.scatter_add(dim, small, s), x0, source0, index=small)
        case(f"scatter_value{dim}", lambda x: x.scatter(dim, small, 1.5), x0, index=small)
        one = torch.randint(size, (7,))
        case(f"index_select{dim}", lambda x: x.index_select(dim, one), x0, index=one)
        shape = [3, 4, 5]
        shape[dim] = 7
        added = torch.randn(shape, dtype=torch.float64)
        case(f"index_add{dim}", lambda x, s: x.index_add(dim, one, s, alpha=2), x0, added,
             index=one, source=added)
        order = torch.argsort(torch.randn(3, 4, 5), dim)  # no index twice
        case(f"scatter{dim}", lambda x, s: x.scatter(dim, order, s), x0, x0 * 2, index=order)

    mask = torch.rand(4, 5) > 0.5
    case("masked_fill", lambda x: x.masked_fill(mask, 9.0), x0, mask=mask)
    case("masked_select", lambda x: x.masked_select(mask), x0, mask=mask)
    r.add("nonzero", x=mask, out=mask.nonzero())

    case("pad", lambda x: F.pad(x, (1, 2, 0, 3), value=7.0), x0)
    case("pad_crop", lambda x: F.pad(x, (-1, 2, 1, -2, 0, 1)), x0)
    case("pad_reflect", lambda x: F.pad(x, (4, 2, 3, 1), mode="reflect"), x0)
    case("pad_replicate", lambda x: F.pad(x, (6, 2, 0, 1), mode="replicate"), x0)
    case("pad_circular", lambda x: F.pad(x, (5, 2), mode="circular"), x0)
    case("flip", lambda x: x.flip(0, 2), x0)
    case("roll", lambda x: x.roll((1, -2), (0, 2)), x0)
    case("roll_flat", lambda x: x.roll(7), x0)
    for diagonal in (-4, -1, 0, 2, 9):
        case(f"tril{diagonal}", lambda x: x.tril(diagonal), x0)
        case(f"triu{diagonal}", lambda x: x.triu(diagonal), x0)

    classes = torch.randint(4, (2, 3))
    r.add("one_hot", classes=classes, out=F.one_hot(classes, 5), shortest=F.one_hot(classes))
    weight = torch.randn(6, 3, dtype=torch.float64)
    ids = torch.tensor([[1, 4, 1], [0, 2, 4]])
    case("embedding", lambda w: F.embedding(ids, w), weight, ids=ids, weight=weight)
    case("embedding_padding", lambda w: F.embedding(ids, w, padding_idx=-2), weight)
