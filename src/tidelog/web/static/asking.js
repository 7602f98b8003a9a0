// Asks the page's server, which may refuse, in JSON or in a line of text, or be gone: `told` or `error`, never an exception.

export async function asked(address, options) {
  try {
    const answer = await fetch(address, options);
    const text = await answer.text();
    if (answer.ok) return { told: JSON.parse(text) };
    return { error: (reason(text) ?? text.trim()) || `the page's server answers ${answer.status}` };
  } catch (error) {
    return { error: `the page's server does not answer: ${error.message}` };
  }
}

function reason(text) {
  return text.startsWith("{") ? JSON.parse(text).error : undefined;
}
