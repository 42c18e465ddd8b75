// The task with the AI SDK's default models: openai() (Responses) or anthropic().
import { createAnthropic } from '@ai-sdk/anthropic'
import { createOpenAI } from '@ai-sdk/openai'
import { generateObject, stepCountIs, streamText, tool } from 'ai'
import { z } from 'zod'
import { check, key, model, prompt, title, tools, url } from './tools.mjs'

const make = { openai: createOpenAI, anthropic: createAnthropic }[process.argv[2]]
const chosen = make({ baseURL: `${url}/v1`, apiKey: key })(model)
const made = await generateObject({ model: chosen, prompt, schema: z.object({ title: z.string() }) })
check(made.object.title === title, made.object)

const offered = {
  read_note: tool({ description: 'Read note.txt.', inputSchema: z.object({}), execute: tools.read_note }),
  write_copy: tool({
    description: 'Write copy.txt.', inputSchema: z.object({ text: z.string() }), execute: tools.write_copy,
  }),
}
// Without it, openai() refers to items of earlier answers by their ids, and nothing is stored.
const providerOptions = { openai: { store: false } }
const result = streamText({
  model: chosen, prompt, tools: offered, stopWhen: stepCountIs(5), maxRetries: 0, providerOptions,
})
for await (const part of result.fullStream) if (part.type === 'error') throw part.error
console.log(await result.text)
