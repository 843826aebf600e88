"""What somebody types who has never seen the project: every command of README.md and of the tutorial, in order."""
