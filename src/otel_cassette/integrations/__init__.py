"""Tools of agent frameworks answered from, and recorded into, the open session.

    mcp.py             tool calls of MCP client sessions
    langchain.py       tools of LangChain and LangGraph
    pydantic_ai.py     tools of pydantic-ai agents
    openai_agents.py   tools of the OpenAI Agents SDK
    imports.py         all of them, each when the program imports the framework
    driving.py         what one call of such a tool gets
    patching.py        how a framework's method is replaced, and how that is undone

Each of the first four has `instrument()` and `uninstrument()`, and touches nothing before. Without
an open session an instrumented framework works as it does without this package. Not here: model
calls, which are answered at the HTTP layer (`clients/`).
"""

from __future__ import annotations
