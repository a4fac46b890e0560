"""Helpers of tests of several devices and layers."""
