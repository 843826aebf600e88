"""Limits of rates and budgets, and the usage that they are about: counters that several processes may share."""
