"""The simulated Kiro service: accounts, faults and rules.  Scripts are written as events of its chat."""
