"""The datasets that recordings can be exported to, as declarations: options, needed sensors and marks. No maths."""
