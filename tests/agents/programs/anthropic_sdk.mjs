// The task with Anthropic's SDK for Node, and its helpers for messages.
import Anthropic from '@anthropic-ai/sdk'
import { check, key, model, prompt, schemas, title, tools, url } from './tools.mjs'

const client = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 })
const messages = [{ role: 'user', content: prompt }]
const offered = Object.entries(schemas).map(([name, input_schema]) => ({ name, description: name, input_schema }))

const ids = []
for await (const one of client.models.list()) ids.push(one.id)
check(ids.includes(model), ids)
const counted = await client.messages.countTokens({ model, messages })
check(counted.input_tokens > 0, counted)
const whole = await client.messages.create({ model, max_tokens: 2000, messages })
check(whole.model === model && whole.content.at(-1).text.includes(title), whole)

let message
for (;;) {
  const stream = client.messages.stream({
    model, messages, max_tokens: 8000, tools: offered, thinking: { type: 'adaptive' },
  })
  message = await stream.finalMessage()
  messages.push({ role: 'assistant', content: message.content })
  const calls = message.content.filter((block) => block.type === 'tool_use')
  if (!calls.length) break
  const content = calls.map((call) => ({
    type: 'tool_result', tool_use_id: call.id, content: tools[call.name](call.input),
  }))
  messages.push({ role: 'user', content })
}
console.log(message.content.at(-1).text)
