"""The example test cases of the BBR draft.

A case is two files side by side: ``NN-name.toml``, a scenario like any other, and
``NN-name.steps.toml``, the draft's numbered steps, each with a query over what the run recorded.
"""
