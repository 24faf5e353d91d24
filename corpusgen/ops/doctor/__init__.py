"""Checks before any hour is paid: the cheap ones, which every build begins with, and the thorough ones of a doctor.

A check is a function that yields lines: a colour, what was looked at, what was found, what to do.
"""
