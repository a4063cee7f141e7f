"""Mutation testing: `make mutants`.

A mutant is one small change of one function: another comparison, a statement left out, a
condition negated. The tests that run the function are run on it, in a separate process, until
one fails. A mutant that no test notices is a survivor: either a test is missing, or the change
makes no difference.
"""
