"""The contract that the first gateways promised: earlier tool calls as text, descriptions of 256 characters at most."""
