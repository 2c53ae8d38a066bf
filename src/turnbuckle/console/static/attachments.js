// What somebody attaches to a message: pictures, PDF files and text. Pure, apart from reading the file itself.
//
// A picture and a PDF go to the model as they are. Text is put into the message under its name, since every model reads
// text. Anything else is refused in words, before anything is sent.

import { size } from "./words.js";

const PICTURES = new Set(["image/png", "image/jpeg", "image/webp", "image/gif"]);
export const MOST_FILES = 10;
export const MOST_PICTURE = 5_000_000; // bytes; what the large providers take
export const MOST_PDF = 10_000_000;
export const MOST_TEXT = 200_000;
export const MOST_TOGETHER = 20_000_000; // the server takes 32 MiB with everything, and a byte grows by a third on its way

/** @typedef {{name: string, size: number, part: object}} Attachment */

/**
 * @param {string} name @param {string} type @param {Uint8Array} bytes
 * @returns {Attachment|{problem: string}}
 */
export function attachmentOf(name, type, bytes) {
  const tooLarge = (most) => bytes.length > most && { problem: `${name} is ${size(bytes.length)}; the limit is ${size(most)}.` };
  if (!bytes.length) return { problem: `${name} is empty.` };
  if (PICTURES.has(type)) {
    const part = () => ({ type: "image_url", image_url: { url: dataUrl(type, bytes) } });
    return tooLarge(MOST_PICTURE) || { name, size: bytes.length, part: part() };
  }
  if (type === "application/pdf") {
    const part = () => ({ type: "file", file: { filename: name, file_data: dataUrl(type, bytes) } });
    return tooLarge(MOST_PDF) || { name, size: bytes.length, part: part() };
  }
  const text = bytes.length <= MOST_TEXT * 4 ? textOf(bytes) : null;
  if (text === null && !/^text\/|json|xml|script/.test(type)) {
    return { problem: `${name} cannot be attached: only pictures (PNG, JPEG, WebP, GIF), PDF files and text can.` };
  }
  if (text === null || bytes.length > MOST_TEXT) return tooLarge(MOST_TEXT) || { problem: `${name} is not valid text.` };
  return { name, size: bytes.length, part: { type: "text", text: framed(name, text) } };
}

/** Why one more may not be attached, or an empty text. @param {Attachment[]} attached @param {Attachment} one */
export function refusalOf(attached, one) {
  if (attached.length >= MOST_FILES) return `${one.name} was not attached: a message can have at most ${MOST_FILES} files.`;
  const together = attached.reduce((sum, { size: bytes }) => sum + bytes, one.size);
  return together > MOST_TOGETHER ? `${one.name} was not attached: all files together may have at most ${size(MOST_TOGETHER)}.` : "";
}

/** A file of the browser. @param {File} file @returns {Promise<Attachment|{problem: string}>} */
export async function readAttachment(file) {
  const name = file.name || "pasted";
  if (file.size > Math.max(MOST_PDF, MOST_PICTURE)) return { problem: `${name} is too large (${size(file.size)}).` };
  try {
    return attachmentOf(name, file.type, new Uint8Array(await file.arrayBuffer()));
  } catch {
    return { problem: `${name} cannot be read. A folder cannot be attached.` };
  }
}

/** What is said, with what is attached, as the server takes it. @param {string} text @param {Attachment[]} files */
export function inputOf(text, files) {
  if (!files?.length) return text;
  return [{ role: "user", content: [...(text ? [{ type: "text", text }] : []), ...files.map((one) => one.part)] }];
}

function textOf(bytes) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return text.includes("\u0000") ? null : text;
  } catch {
    return null;
  }
}

/** In a fence that is longer than any in the text. */
function framed(name, text) {
  const longest = Math.max(2, ...Array.from(text.matchAll(/`{3,}/g), ([ticks]) => ticks.length));
  const fence = "`".repeat(longest + 1);
  return `${name.replace(/\s+/g, " ")}:\n${fence}\n${text.endsWith("\n") ? text : `${text}\n`}${fence}`;
}

/** The file that such a text is of, or null. @param {string} text @returns {{name: string, text: string}|null} */
export function attachedText(text) {
  const head = /^([^\n]{1,500}):\n(`{3,})\n/.exec(text);
  if (!head || !text.endsWith(`\n${head[2]}`)) return null;
  return { name: head[1], text: text.slice(head[0].length, -head[2].length) };
}

function dataUrl(type, bytes) {
  const pieces = [];
  for (let at = 0; at < bytes.length; at += 0x8000) pieces.push(String.fromCharCode(...bytes.subarray(at, at + 0x8000)));
  return `data:${type};base64,${btoa(pieces.join(""))}`;
}
