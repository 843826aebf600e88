"""What is kept between requests, and what is counted: each part stands by itself."""
