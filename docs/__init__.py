"""The site: guides in Markdown, reference pages made from the code, and the published report."""
