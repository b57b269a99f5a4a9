"""Makes one call, then ends with the exit code given."""

import sys

from openai import OpenAI

OpenAI(max_retries=0).chat.completions.create(
    model="gpt-4o-mini", messages=[{"role": "user", "content": "hello"}]
)
sys.exit(int(sys.argv[1]))
