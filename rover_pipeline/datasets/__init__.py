"""The datasets that recordings can be exported to, as declarations; what is in one and how it is split."""
