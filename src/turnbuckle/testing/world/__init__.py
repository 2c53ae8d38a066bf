"""A world that fits into memory: a scripted model, counted tools, a journal that can be lost, and time on
request.

`brains` are models that know what they want, `model` speaks for them, `tools` count what they do, `people`
answer what they are asked, `process` is one life of a run with a fault in it, `run_world` lets a task live
through faults until it ends, `campaign` tries them all.
"""
