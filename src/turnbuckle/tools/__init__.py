"""What the model can do: tools made from typed functions, checked, run within limits, with one outcome per
call."""
