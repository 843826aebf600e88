"""Values: requests and the parts of answers.  Nothing here awaits or decides."""
