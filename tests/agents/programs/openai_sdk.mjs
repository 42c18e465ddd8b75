// The task with OpenAI's SDK for Node over Responses, and its helpers for responses and chat.
import OpenAI from 'openai'
import { zodTextFormat, zodResponseFormat } from 'openai/helpers/zod'
import { z } from 'zod'
import { check, key, model, prompt, schemas, title, tools, url } from './tools.mjs'

const client = new OpenAI({ baseURL: `${url}/openai/v1`, apiKey: key, maxRetries: 0 })
const Titled = z.object({ title: z.string() })
const input = [{ role: 'user', content: prompt }]
const functions = Object.entries(schemas).map(([name, parameters]) => ({ name, description: name, parameters, strict: true }))
const offered = functions.map((one) => ({ type: 'function', ...one }))

const ids = []
for await (const one of client.models.list()) ids.push(one.id)
check(ids.includes(model), ids)
const whole = await client.responses.create({ model, input: prompt })
check(whole.model === model && whole.output_text.includes(title), whole)
const parsed = await client.responses.parse({ model, input: prompt, text: { format: zodTextFormat(Titled, 'titled') } })
check(parsed.output_parsed.title === title, parsed)
const chat = await client.chat.completions.parse({
  model, messages: input, response_format: zodResponseFormat(Titled, 'titled'),
})
check(chat.choices[0].message.parsed.title === title, chat)
const chunks = client.chat.completions.stream({
  model, messages: input, tools: functions.map((one) => ({ type: 'function', function: one })),
})
const called = await chunks.finalChatCompletion()
check(called.choices[0].message.tool_calls[0].function.name === 'read_note', called)

let response
for (;;) {
  const stream = client.responses.stream({
    model, input, tools: offered, store: false,
    include: ['reasoning.encrypted_content'], reasoning: { effort: 'medium', summary: 'auto' },
  })
  response = await stream.finalResponse()
  const calls = response.output.filter((item) => item.type === 'function_call')
  if (!calls.length) break
  input.push(...response.output)
  for (const call of calls) {
    const output = tools[call.name](JSON.parse(call.arguments))
    input.push({ type: 'function_call_output', call_id: call.call_id, output })
  }
}
console.log(response.output_text)
