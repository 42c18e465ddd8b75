"""Fields that providers accepted in recorded calls and the gateway does not send unchanged, with the reasons."""

IT_IS_THE_DEFAULT = "temperature 1 with thinking, which is the default"
UNPRICED = "it changes the price of a call"
OF_THE_VENDOR = "a vendor's own field, which no client of the gateway has a reason to send"
VENDOR_RUN = "a tool that the provider runs, at a price that no hold covers"
ANOTHER_SHAPE = "a form that the contract does not have"
OF_NO_TOOLS = "an empty list of tools, or what says something about tools where there are none"
NO_FAMILY = "a provider without a family of its own"

LEFT_OUT: dict[tuple[str, str], str] = {
    (
        "bedrock-openai",
        "messages.reasoning",
    ): "bedrock-mantle takes it, for bedrock-runtime no recording shows it",
    ("bedrock-openai", "service_tier"): UNPRICED,
    (
        "cerebras",
        "reasoning_effort",
    ): "zai-glm-4.7 takes none, and gpt-oss, the model of the catalog, does not",
    ("claude-4-6", "temperature"): IT_IS_THE_DEFAULT,
    ("claude-sampling", "temperature"): IT_IS_THE_DEFAULT,
    ("claude-sampling", "tools"): OF_NO_TOOLS,
    ("claude-sampling", "top_p"): "with thinking it is accepted from 0.95 on, and refused below",
    ("gemini", "messages.reasoning_content"): "what counts of a thought is its signature, which is sent",
    ("gemini", "refused: tools.0.type"): VENDOR_RUN,
    ("gemini-2", "cached_content"): "no hold would cover the cached prompt",
    ("gemini-2", "logprobs"): "Vertex AI takes it, the Gemini API answers 400",
    ("gemini-2", "top_logprobs"): "Vertex AI takes it, the Gemini API answers 400",
    ("gemini-2", "refused: tools.0.type"): VENDOR_RUN,
    ("grok", "parallel_tool_calls"): OF_NO_TOOLS,
    ("grok", "refused: None"): ANOTHER_SHAPE + ": tool_choice of type tool",
    ("huggingface", "options"): OF_THE_VENDOR,
    ("huggingface", "parameters"): OF_THE_VENDOR,
    ("huggingface", "refused: tool_choice"): ANOTHER_SHAPE + ": the bare name of a function",
    ("huggingface", "refused: tool_choice.type"): ANOTHER_SHAPE + ": a function without its type",
    ("huggingface", "return_full_text"): OF_THE_VENDOR,
    ("huggingface", "tools"): OF_NO_TOOLS,
    ("llamacpp", "grammar"): OF_THE_VENDOR,
    (
        "mistral-reasoning",
        "messages.tool_calls.id",
    ): "the recording's ids are blanked, and no longer 9 characters",
    ("mistral-reasoning", "refused: tool_choice"): ANOTHER_SHAPE + ": any, which required becomes",
    ("mistral-reasoning", "tool_choice"): OF_NO_TOOLS,
    ("mistral", "random_seed"): "the vendor's name of seed, as which it is sent",
    ("mistral", "refused: tool_choice"): ANOTHER_SHAPE + ": any, which required becomes",
    ("mistral", "refused: tools.0.type"): ANOTHER_SHAPE + ": a tool without its type",
    ("ollama", "enable_thinking"): "Ollama has no such field, and ignores it",
    ("ollama", "options"): OF_THE_VENDOR,
    ("ollama", "service_tier"): "Ollama has no such field, and ignores it",
    ("openai-chat", "audio"): UNPRICED,
    ("openai-chat", "extra_body"): OF_THE_VENDOR,
    ("openai-chat", "function_call"): ANOTHER_SHAPE + ": what tools replaced",
    ("openai-chat", "functions"): ANOTHER_SHAPE + ": what tools replaced",
    ("openai-chat", "messages.reasoning"): NO_FAMILY,
    ("openai-chat", "messages.reasoning_content"): NO_FAMILY,
    ("openai-chat", "modalities"): UNPRICED,
    ("openai-chat", "provider"): NO_FAMILY,
    ("openai-chat", "reasoning"): NO_FAMILY,
    ("openai-chat", "reasoning_effort"): NO_FAMILY,
    ("openai-chat", "service_tier"): UNPRICED,
    ("openai-chat", "venice_parameters"): NO_FAMILY,
    ("openai-chat", "web_search_options"): UNPRICED,
    ("openrouter", "models"): UNPRICED,
    ("openrouter", "plugins"): UNPRICED,
    ("openrouter", "provider"): UNPRICED,
    ("openrouter", "refused: tool_choice"): ANOTHER_SHAPE + ": any",
    ("openrouter", "refused: tools.0.type"): VENDOR_RUN,
    ("openrouter", "transforms"): OF_THE_VENDOR,
    ("openrouter", "usage"): "usage is asked for by stream_options, and comes unasked in whole answers",
    ("perplexity", "search_context_size"): UNPRICED,
    ("together", "function_call"): ANOTHER_SHAPE + ": what tools replaced",
    ("together", "provider"): OF_THE_VENDOR,
}
"""Accepted fields that are not sent unchanged: (family, field) → reason."""

OURS = "stream_options"
"""The gateway itself asks for usage in streams."""
