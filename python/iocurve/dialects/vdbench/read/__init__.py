"""Reading: text becomes values, values become fields of a job; what is wrong is found at once, with its place."""
