"""The process that makes pages, next to the one that answers calls.

A page takes some 70 ms of processor time on a large ledger, and calls would wait for it in threads of the same process.
Source: docs/decisions/pages-are-made-in-a-process-of-their-own.md.

| module | is |
|---|---|
| ``process`` | ``PageProcess``: starts the process, asks it, and ends it |
| ``messages`` | what is sent between the two |
| ``__main__`` | the process |
| ``maker`` | makes the answer to a question |
"""
