// What the Node programs here share: the setting of the gateway, and the two tools of the task.
import { readFileSync, writeFileSync } from 'node:fs'

export const { GATEWAY_URL: url, GATEWAY_KEY: key, GATEWAY_MODEL: model, PROMPT: prompt } = process.env
export const title = 'A note is copied'

const text = { type: 'object', properties: { text: { type: 'string' } }, required: ['text'], additionalProperties: false }
const nothing = { type: 'object', properties: {}, required: [], additionalProperties: false }
export const schemas = { read_note: nothing, write_copy: text }
export const tools = {
  read_note: () => readFileSync('note.txt', 'utf8'),
  write_copy: ({ text }) => {
    writeFileSync('copy.txt', text)
    return 'written'
  },
}

export function check(condition, what) {
  if (!condition) throw new Error(`not as it should be: ${JSON.stringify(what)}`)
}
