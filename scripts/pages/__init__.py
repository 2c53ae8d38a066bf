"""The pages of `docs/` that follow from the code: references, and recordings of what commands print.

A page is written by hand except for the parts between two comments, `<!-- made: NAME -->` and `<!-- end -->`.
`make reference` writes these parts again, and a test compares, so they cannot be about another program.
"""
