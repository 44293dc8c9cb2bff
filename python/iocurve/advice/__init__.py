"""Advice: is a client set up well, how big must a volume be, is it what was bought.

Reads results, captured hosts and fact files; measures only through the campaign.
"""
