"""Differences from PyTorch 2 that are known and wanted, each with its reason."""

import re

# (ops, kinds of difference, condition on the case, reason); the first two are regular expressions
# that match as a whole.
KNOWN = [
]


def reason(case, difference):
    """Why this difference is wanted, or None."""
    for ops, kinds, condition, text in KNOWN:
        if re.fullmatch(ops, case.name) and re.fullmatch(kinds, difference.kind) and condition(case):
            return text
    return None
