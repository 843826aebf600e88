"""Rate limits, budgets, and usage: counters that several processes may share."""
