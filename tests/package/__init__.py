"""What is published: the archives that users install."""
