"""Mutation tests: faults planted in the source, one at a time, and the tests that find them. See CONTRIBUTING.md."""
