"""Vocabularies of span attributes: one file each, told apart by content.

A dialect turns one finished span (and its log records) into a `Reading`. It knows nothing of other
spans; what follows from the tree (duplicates, nesting, order, inference) is `assemble`'s.
"""
