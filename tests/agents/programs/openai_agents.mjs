// The task with OpenAI's Agents SDK for Node as it is by default: over Responses.
import { Agent, run, setDefaultOpenAIClient, setTracingDisabled, tool } from '@openai/agents'
import OpenAI from 'openai'
import { z } from 'zod'
import { key, model, prompt, tools, url } from './tools.mjs'

setDefaultOpenAIClient(new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 }))
setTracingDisabled(true)
const offered = [
  tool({ name: 'read_note', description: 'Read note.txt.', parameters: z.object({}), execute: tools.read_note }),
  tool({
    name: 'write_copy', description: 'Write copy.txt.', parameters: z.object({ text: z.string() }), execute: tools.write_copy,
  }),
]
const modelSettings = { reasoning: { effort: 'medium', summary: 'auto' } }
const result = await run(new Agent({ name: 'copier', model, tools: offered, modelSettings }), prompt, { stream: true })
await result.completed
console.log(result.finalOutput)
