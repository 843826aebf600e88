"""The simulated Kiro service: accounts, faults and rules.  Its chat is what scripts are written in."""
