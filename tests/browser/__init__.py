"""The official JavaScript SDKs in a real browser, in a page of another origin than the gateway's."""
