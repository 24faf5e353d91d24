"""Tools around a build: doctor, estimate, inspect, report, status, submit, export, merge, calibrate."""
