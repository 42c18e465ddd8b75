// The task with LangChain for Node, with reasoning, which goes over Responses.
import { HumanMessage, ToolMessage } from '@langchain/core/messages'
import { ChatOpenAI } from '@langchain/openai'
import { key, model, prompt, schemas, tools, url } from './tools.mjs'

const llm = new ChatOpenAI({
  model, apiKey: key, maxRetries: 0, configuration: { baseURL: `${url}/v1` },
  useResponsesApi: true, reasoning: { effort: 'medium', summary: 'auto' },
})
const functions = Object.entries(schemas).map(([name, parameters]) => ({
  type: 'function', function: { name, description: name, parameters },
}))
const bound = llm.bindTools(functions)
const said = [new HumanMessage(prompt)]
let answer
for (;;) {
  answer = undefined
  for await (const piece of await bound.stream(said)) answer = answer ? answer.concat(piece) : piece
  said.push(answer)
  if (!answer.tool_calls?.length) break
  for (const call of answer.tool_calls) {
    said.push(new ToolMessage({ tool_call_id: call.id, content: tools[call.name](call.args) }))
  }
}
console.log(answer.text)
