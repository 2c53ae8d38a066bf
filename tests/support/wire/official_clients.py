"""The official packages as readers of given bytes. Only the network is replaced: every request gets the same body."""

import anthropic
import httpx2
import openai


def openai_client(body: bytes, content_type: str = "text/event-stream", status: int = 200) -> openai.OpenAI:
    return openai.OpenAI(api_key="none", max_retries=0, http_client=_http(body, content_type, status))


def anthropic_client(
    body: bytes, content_type: str = "text/event-stream", status: int = 200
) -> anthropic.Anthropic:
    return anthropic.Anthropic(api_key="none", max_retries=0, http_client=_http(body, content_type, status))


def _http(body: bytes, content_type: str, status: int) -> httpx2.Client:
    def respond(_request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, headers={"content-type": content_type}, content=body)

    return httpx2.Client(transport=httpx2.MockTransport(respond))
