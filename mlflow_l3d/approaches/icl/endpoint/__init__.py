"""Models behind endpoints that speak OpenAI's protocol: vLLM, llama.cpp, Ollama, hosted ones."""
