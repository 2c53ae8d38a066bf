"""Doubles for everything that can fail: scripted providers, time that waits, cuts at every byte."""
