"""The parts of which stages are made: parsers and verdicts, each to be fed by hand; none is a stage."""
