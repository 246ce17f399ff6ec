"""The parts of ``bench_peers.py``: models for each engine, one measured run, many in turn, the report.

Every module imports nothing but the standard library at first, for it also runs in the engines' own Pythons.
"""
