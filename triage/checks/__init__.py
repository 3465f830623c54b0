"""Staged live checks: one GPU, one node, many nodes. Each stage runs in child processes with a time limit.

`gpu_child.py` and `group_child.py` are scripts that need the standard library and torch alone; they write JSON lines
(`model.check.Raw`) to a file, so that what was measured before a hang survives it. `judging` compares with `expected`.
"""
