import { setTimeout as sleep } from 'node:timers/promises'

/** Answers a prompt, one token after the other, at most `most` of them. */
export type Model = (prompt: string, most: number) => AsyncIterable<string>

const WORDS =
  'A quota is a promise : so much in so much time , for you alone . Who keeps to it is never refused , and who is ' +
  'refused is told how long to wait . This answer is the same for every prompt , since no model is asked here .'

/** Stands for your model. It says the same to everybody, a token each `pace` milliseconds. */
export function pretend(pace: number): Model {
  return async function* answer(_prompt, most) {
    for (const word of WORDS.split(' ').slice(0, most)) {
      await sleep(pace)
      yield word
    }
  }
}
