"""The statements and methods of five published benchmark documents, each with what iocurve shows of it."""
