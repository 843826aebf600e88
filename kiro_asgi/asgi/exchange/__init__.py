"""One exchange: the request, whom it goes to, the attempts, and the answer on its way back."""
