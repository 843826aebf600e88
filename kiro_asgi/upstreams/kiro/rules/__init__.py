"""From a prompt to messages that the service takes: every constraint a rule with a name, see `table`.

The rules run in this order, and each relies on those before it::

    Prompt ─► tools, names, schema ─► drafts (texts, attachments, thinking) ─► results ─► turns ─► sizes

A rule that has something to do asks `notes.Notes` whether it may, which counts it; one that is switched off leaves
what it found as it was.  Nothing that the client said is lost without a note whose rule says so.
"""
