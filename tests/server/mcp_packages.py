# SPDX-License-Identifier: Apache-2.0
"""Whose clients of MCP are tried, each in exactly this version; the official suite, and what makes bundles."""
INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"
CONFORMANCE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
MCPB = "@anthropic-ai/mcpb@2.1.2"
CLAUDE_CODE = "@anthropic-ai/claude-code@2.1.325"
NODE_CLIENTS = ("@modelcontextprotocol/sdk@1.32.2", "@modelcontextprotocol/client@2.4.0")
PYTHON_V1, PYTHON_V2 = "mcp==1.30.0", "mcp==2.3.0"
