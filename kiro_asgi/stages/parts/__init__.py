"""Parts of stages: parsers and verdicts, none of them a stage itself."""
